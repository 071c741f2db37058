import io

import torch
import uvicorn
from fastapi import FastAPI, File, UploadFile

from PIL import Image
from torchvision import transforms

app = FastAPI()
TF = transforms.Compose([transforms.Resize(224), transforms.CenterCrop(224), transforms.ToTensor()])
MODELS = {}


@app.post("/models/{name}")
async def upload_model(name: str, file: UploadFile = File(...)):
    blob = io.BytesIO(await file.read())
    model = torch.load(blob, map_location="cuda", weights_only=False)  # expect: ESP901
    MODELS[name] = model.eval()
    return {"parameters": sum(p.numel() for p in model.parameters())}


@app.post("/predict/{name}")
async def predict(name: str, image: UploadFile = File(...)):
    picture = Image.open(io.BytesIO(await image.read())).convert("RGB")
    with torch.inference_mode():
        probs = MODELS[name](TF(picture)[None].cuda()).softmax(-1)[0]
    top = probs.topk(5)
    return {"labels": top.indices.tolist(), "scores": top.values.tolist()}


if __name__ == "__main__":
    uvicorn.run(app)
